"""The console in a real browser: flows (`make test-browser`) and screenshots (`make screenshots`)."""
