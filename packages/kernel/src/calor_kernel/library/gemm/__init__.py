"""Main loops of matrix products, one for each instruction, for products, convolutions, attention.

A main loop takes a loader for each operand and leaves sums for an epilogue. A loader copies its
operand's tile of one step to a stage of shared memory, whatever the operand's layout. The loop
itself knows only tiles and registers.
"""
