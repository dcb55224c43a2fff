-- Functions call each other, so their bodies are checked when they run, not when they are made.
SET LOCAL check_function_bodies = off
