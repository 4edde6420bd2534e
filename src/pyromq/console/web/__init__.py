"""How a page of the console is asked for and made.

route        one row of the table of routes: method, path, role, handler
app          from a request to its handler: host, session, role, CSRF, errors, audit log, headers
visit        what a handler gets                     form, listing   what it reads: fields; search, sort, page
templating   Jinja2: filters (wording), functions, URLs      navigation   the menu
parts        what all visits share                   guard   checks of host, origin and session
"""
