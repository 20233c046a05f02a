"""Commands that run and check a service: `local`, `gateway`, `configure`, `doctor`, `audit`, `backup`, `cost`."""
