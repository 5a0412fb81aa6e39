"""Programs of transforms nested in any order, and their meaning without one.

A program is drawn once and run in two libraries. One is calor. The other maps by loops, compiles
nothing, branches and repeats as Python does, and differentiates by dual numbers in double
precision, so it shares no line with what it judges.
"""
