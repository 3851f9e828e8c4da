"""Load on an OpenAI endpoint: prompts from a seed, a closed loop, one row for every request."""
