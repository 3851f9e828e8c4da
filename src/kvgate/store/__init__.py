"""The run folder: written by one `run.RunWriter`, read by `reader.RunReader`, sealed by `seal`."""
