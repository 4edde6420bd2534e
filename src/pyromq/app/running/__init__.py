"""`pyromq run`: an App as a service.

    loading.py      finds the App that `module:app` names
    serving.py      runs an App in this process until it is asked to stop
    supervisor.py   starts worker processes, replaces those that die, reloads them, and stops them in order
    changes.py      notices changed source files

A worker is a process of its own and a member of the App's groups. Its standard input is a pipe of the supervisor: when
the pipe closes, because the supervisor wants it or has died, the worker finishes what it has in hand and ends.
"""
