"""The console: see and steer a log in a browser.

    settings.py   what an operator may choose           state.py     the cluster, and what is remembered of it
    app.py        the ASGI application: every route     serving.py   its port
    guard.py      the door: hosts, sessions, forgery, rates, headers     sessions.py   tokens, sessions   rates.py
    audit.py      what was changed here                 forms.py     fields of requests
    rendering.py  Jinja                                 events.py    server-sent events
    pages/        one module for each part of the console
    templates/    HTML, rendered on the server          static/      one style sheet, one module of JavaScript

A page calls `odradek.operations` and shows the result. The console has no rights of its own: it calls the service with
the credentials that it was started with, and the service's ACLs decide. It loads nothing from elsewhere.
"""
