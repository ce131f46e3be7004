"""Programs that a session runs: supervised, limited, and ended with everything that they have started."""
