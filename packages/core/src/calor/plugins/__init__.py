"""Finding and loading what other distributions add.

A distribution adds a device, a scheme, a fuser, ops, an importer or tuned choices by an entry point
in the group ``calor.plugins.v1``. The entry point's name is the name of what it brings, so that a
name is found without importing anything:

.. code-block:: toml

    [project.entry-points."calor.plugins.v1"]
    acme = "calor_acme.plugin"                  # the device "acme", or the scheme "acme:"
    "fuser.acme" = "calor_acme.plugin"          # the fuser "acme"
    "ops.acme" = "calor_acme.plugin"            # rows of the op table
    "importer.acme" = "calor_acme.plugin"       # reads files that end in ".acme"
    "tuned.acme" = "calor_acme.plugin"          # measured choices among kernels

The entry point's object (a module, here ``calor_acme/plugin.py``, that imports nothing heavy)
implements the hooks of :mod:`calor.plugins.hooks`.
"""

from calor.plugins.hooks import hookimpl

__all__ = ["hookimpl"]
