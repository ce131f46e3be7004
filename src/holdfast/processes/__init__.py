"""Programs that a session runs: supervised, limited, ended with everything they have started, and found after a kill."""
