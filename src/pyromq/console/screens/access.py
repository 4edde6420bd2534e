"""Access: who may use the console and what they see, and the accounts of the cluster with their rights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace
from starlette.responses import Response

from pyromq.admin.maintenance.accounts import AccountRights
from pyromq.console.login.console_file import MaskingEntry, UserEntry
from pyromq.console.login.passwords import hash_password, new_password
from pyromq.console.login.roles import UserRole
from pyromq.console.web.failures import FormError, NotFound
from pyromq.console.web.route import Route
from pyromq.console.web.visit import Visit
from pyromq.errors import ClientError, PyroMQError

ROLES: Final = tuple(role for role in UserRole if role is not UserRole.PUBLIC)
_PERMISSIONS: Final = ("DENY", "PUB", "SUB", "PUB|SUB")


async def access(visit: Visit) -> Response:
    """Show users, rules and accounts."""
    accounts, reason = await _accounts(visit)
    file = visit.parts.sign_in.file
    return await visit.render(
        "access.html",
        accounts=accounts,
        reason=reason,
        users=sorted(file.users.items()),
        rules=file.masking,
        roles=ROLES,
        permissions=_PERMISSIONS,
        is_kept=visit.settings.console_file is not None,
        header=file.trusted_header,
    )


async def _accounts(visit: Visit) -> tuple[Sequence[AccountRights], str]:
    try:
        return sorted(await visit.admin.accounts.list(), key=lambda one: one.access_key), ""
    except PyroMQError as error:
        return (), str(error)


# --- users of the console


async def put_user(visit: Visit) -> Response:
    """Add a user of the console, or change a role; a new user gets a password that is shown once."""
    form, file = visit.form, visit.parts.sign_in.file
    name = form.required("name", visit.t("Name"))
    try:
        role = UserRole.of(form.text("role"))
    except ValueError as error:
        raise FormError(str(error)) from None
    known = file.users.get(name)
    _check_own_role(visit, name, role)
    password = "" if known is not None and not form.flag("new_password") else new_password()
    entry = UserEntry(role=role.word, password=hash_password(password) if password or known is None else known.password)
    visit.parts.sign_in.change(replace(file, users={**file.users, name: entry}))
    if name != visit.user.name:
        visit.parts.sign_in.sessions.end_all(name)
    visit.describe("change user", name, before=known and known.role, after=role.word)
    if not password:
        return visit.redirect("/access", visit.t("{name} is {role} now.", name=name, role=visit.t(role.word)))
    return visit.redirect(
        "/access", visit.t("The password of {name}, shown this once: {password}", name=name, password=password)
    )


async def remove_user(visit: Visit) -> Response:
    """Remove a user of the console."""
    file, name = visit.parts.sign_in.file, visit.form.required("name", visit.t("Name"))
    if name not in file.users:
        raise NotFound(visit.t("There is no user {name}.", name=name))
    _check_own_role(visit, name, None)
    visit.parts.sign_in.change(
        replace(file, users={other: entry for other, entry in file.users.items() if other != name})
    )
    visit.parts.sign_in.sessions.end_all(name)
    visit.describe("remove user", name, before=file.users[name].role)
    return visit.redirect("/access", visit.t("{name} cannot sign in any more.", name=name))


def _check_own_role(visit: Visit, name: str, role: UserRole | None) -> None:
    if name == visit.user.name and visit.user.kind == "password" and role is not UserRole.ADMIN:
        raise FormError(visit.t("You cannot take your own rights away: let another administrator do it."))


# --- masking


async def add_rule(visit: Visit) -> Response:
    """Mask fields of some topics."""
    form, file = visit.form, visit.parts.sign_in.file
    topic = form.required("topic", visit.t("Topic"))
    fields = tuple(part for part in form.text("fields").replace(",", " ").split() if part)
    entry = MaskingEntry(topic=topic, fields=fields or ("",))  # no field is refused like a wrong one
    visit.parts.sign_in.change(replace(file, masking=(*file.masking, entry)))
    visit.describe("add masking rule", topic, after=list(fields))
    return visit.redirect(
        "/access", visit.t("{fields} of {topic} are masked now.", fields=", ".join(fields), topic=topic)
    )


async def remove_rule(visit: Visit) -> Response:
    """Remove a masking rule."""
    file, number = visit.parts.sign_in.file, visit.form.number("number", least=0)
    if number >= len(file.masking):
        raise NotFound(visit.t("There is no such rule any more."))
    rule = file.masking[number]
    if rule.topic != visit.form.text("topic"):
        raise FormError(visit.t("The rules have changed: load the page again."))
    visit.parts.sign_in.change(replace(file, masking=(*file.masking[:number], *file.masking[number + 1 :])))
    visit.describe("remove masking rule", rule.topic, before=list(rule.fields))
    return visit.redirect("/access", visit.t("The rule for {topic} is gone.", topic=rule.topic))


# --- accounts of the cluster


async def put_account(visit: Visit) -> Response:
    """Add an account, or change its rights."""
    form, accounts = visit.form, visit.admin.accounts
    key = form.required("access_key", visit.t("Access key"))
    topics, groups = _rights(visit, form.text("topics")), _rights(visit, form.text("groups"))
    default_topic, default_group = form.text("default_topic", "DENY"), form.text("default_group", "DENY")
    is_admin, is_new = form.flag("admin"), form.flag("new")
    rights = {"topics": topics, "groups": groups, "others": [default_topic, default_group], "admin": is_admin}
    visit.describe("add account" if is_new else "change account", key, after=rights)
    if is_new:
        secret = await accounts.add(
            key, admin=is_admin, default_topic=default_topic, default_group=default_group, topics=topics, groups=groups
        )
        notice = visit.t("The secret of {name}, shown this once: {secret}", name=key, secret=secret)
        return visit.redirect("/access", notice)
    known = (await accounts.get(key))[0]
    await accounts.set(
        key,
        admin=is_admin,
        default_topic=default_topic,
        default_group=default_group,
        topics={**dict.fromkeys(known.topics, ""), **topics},
        groups={**dict.fromkeys(known.groups, ""), **groups},
    )
    return visit.redirect("/access", visit.t("The rights of {name} are changed.", name=key))


def _rights(visit: Visit, text: str) -> dict[str, str]:
    """Read `name=PERMISSION`, one a line."""
    found: dict[str, str] = {}
    for line in filter(None, map(str.strip, text.replace(",", "\n").splitlines())):
        name, sign, permission = (part.strip() for part in line.rpartition("="))
        if not sign or not name or permission.upper() not in _PERMISSIONS:
            raise FormError(visit.t("Not a name and a permission such as orders=PUB|SUB: {line}", line=line[:60]))
        found[name] = permission.upper()
    return found


async def remove_account(visit: Visit) -> Response:
    """Remove an account."""
    key = visit.form.required("access_key", visit.t("Access key"))
    if key == visit.user.name and visit.user.kind == "account":
        raise ClientError(visit.t("You are signed in with this account."))
    await visit.admin.accounts.remove(key)
    visit.describe("remove account", key)
    return visit.redirect("/access", visit.t("The account {name} is gone; its connections are closed.", name=key))


ROUTES: Final = (
    Route("GET", "/access", UserRole.ADMIN, access),
    Route("POST", "/access/users", UserRole.ADMIN, put_user),
    Route("POST", "/access/users/remove", UserRole.ADMIN, remove_user),
    Route("POST", "/access/masking", UserRole.ADMIN, add_rule),
    Route("POST", "/access/masking/remove", UserRole.ADMIN, remove_rule),
    Route("POST", "/access/accounts", UserRole.ADMIN, put_account),
    Route("POST", "/access/accounts/remove", UserRole.ADMIN, remove_account),
)
