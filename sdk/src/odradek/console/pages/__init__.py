"""The pages: each module shows one part of a log and carries out what its forms ask for."""
