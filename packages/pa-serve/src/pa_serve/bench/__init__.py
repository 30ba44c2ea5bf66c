"""The measurements behind `pa bench`."""
