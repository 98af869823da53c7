"""The machinery of the base classes on the authors' page, one module for each: see `scheduler.authoring`."""
