"""Who uses the console, and what they may do there.

roles         the four roles, in their order             users      the user of a visit
sign_in       finds out who a visitor is                 sessions   cookies, CSRF tokens, notices
passwords     scrypt                                     throttle   pauses after wrong passwords
accounts      accounts of the cluster's access control
console_file  console.yml: users, masking rules, a trusted header
"""
