"""The form of a kernel between the language and the printers."""
