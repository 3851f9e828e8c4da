"""The embedded engine (a tiny decoder over OpenAI's protocol) and the arms that serve a workload.

Importing this package, or its `arms`, imports no NumPy: that is for the engine's own process.
"""
