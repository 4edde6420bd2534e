"""Who changed what: the requests of operators, noted when they have their answer.

access_log       AccessLog wraps the handlers of requests that change something: a line of the log for each
audit_trail      AuditTrail: the same as JSON lines in a file, with the state before and after
audit_requests   what answers an administrator who wants to read it
"""
