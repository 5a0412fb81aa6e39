"""An OpenCL device keeps the contract of devices."""

from device_contract import *  # noqa: F403 - its tests
from device_contract import Contract

CONTRACT = Contract(
    plugin="calor_opencl",
    driver="pyopencl",
    refused="__kernel void k(void) { nothing_known = 1; }",
    too_much="limit of .*; compute in smaller parts",
)
