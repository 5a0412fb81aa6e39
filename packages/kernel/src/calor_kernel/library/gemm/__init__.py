"""Main loops of matrix products, one an instruction: what products, convolutions and attention use.

A main loop takes a loader of each operand and leaves sums, which an epilogue writes. A loader
copies an operand's part of a step to a stage of shared memory, wherever the elements lie; the
loop knows tiles and registers alone.
"""
