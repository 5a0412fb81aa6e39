"""A device of wgpu keeps the contract of devices."""

from device_contract import *  # noqa: F403 - its tests
from device_contract import Contract

CONTRACT = Contract(
    plugin="calor_wgpu",
    driver="wgpu",
    refused="@compute fn main() { nothing_known = 1; }",
    too_much="limit of .*; compute in smaller parts",
)
