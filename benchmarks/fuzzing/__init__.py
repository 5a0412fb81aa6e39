"""The speed fuzzer: operations drawn as models use them, timed beside a peer."""
