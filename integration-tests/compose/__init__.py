"""One user-written class for each part of an engine, as somebody outside would write it."""
