"""The screens of the console, a module each: handlers, and ROUTES with the role that each needs."""
