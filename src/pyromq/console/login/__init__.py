"""Who uses the console, and what they may do there.

roles       the four roles, in their order         users       the user of a visit, and who signs in how
passwords   scrypt                                  accounts    accounts of the cluster's access control
sessions    cookies, CSRF tokens, notices           throttle    pauses after wrong passwords
console_file  console.yml: users, masking rules, trusted header, OIDC
masking     hides fields of bodies by topic         oidc        sign in at an identity provider
"""
