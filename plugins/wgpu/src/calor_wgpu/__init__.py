"""calor on the devices of wgpu: Vulkan, Metal and Direct3D 12."""

__all__: list[str] = []
