"""Share groups (KIP-932): records in flight, acknowledgements, dead letters.

window.py is the state of a partition's records in flight (pure), windows.py its item; fetch.py is one ShareFetch or
ShareAcknowledge from session to answer.
"""
