"""The backend's side of the runtime: the engine, the tuner, profiles and the backend for core."""
