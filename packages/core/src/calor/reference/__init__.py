"""The meaning of the primitive ops as functions of NumPy arrays.

Requirements: a result here is what every device must give, within the stated bound. So these
functions state what C and NumPy leave open, never warn, never modify an operand, and neither
broadcast nor promote: operands already agree. They know NumPy and ml_dtypes and nothing of calor.
"""
