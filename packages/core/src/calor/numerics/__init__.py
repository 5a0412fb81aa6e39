"""Functions that few programs use: ``calor`` imports each when it is named.

Requirements: importing calor stays quick, so nothing here is imported by a module that it loads.
They are compositions of ``calor.functions``, so they run on every device and have gradients.
"""
