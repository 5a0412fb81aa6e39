"""A GPU of Apple, imitated on the processor, keeps the contract of devices."""

from device_contract import *  # noqa: F403 - its tests
from device_contract import Contract

CONTRACT = Contract(
    plugin="calor_metal",
    driver="Metal",
    refused="kernel void k() { nothing_known = 1; }",
    too_much="the limit is .* free tensors",
)
