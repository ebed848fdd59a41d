"""Control paths beside those of `tests.support.control`. Bodies and answers are JSON.

Faults of ``POST /_test/faults`` are `AWSFault`: ``path`` is found in the action, such as ``ec2:AssociateAddress``.

=======  =========================  ========================================================================
GET      /_test/state               {"addresses": {ip: {"tags", "holder"}}, "settings"}
POST     /_test/instances           {"count": 2} and the parameters of `Account.add_instance`: {"instances": […]}
POST     /_test/instances/stop      {"instance_id", "region"}; likewise /_test/instances/terminate
POST     /_test/addresses           {"count": 2} and the parameters of `Account.add_address`: {"ips": […]}
POST     /_test/addresses/remove    {"public_ip"}: released, associated or not
POST     /_test/interfaces          {"region"}: {"id": "eni-…"}, of no instance
POST     /_test/put                 {"public_ip", "target_id", "private_address"}: behind the API's back
POST     /_test/take-off            {"public_ip"}
POST     /_test/pools               {"pool_id", "cidr", "region"}
POST     /_test/zones               {"name", "private": false}: {"id": "Z…"}
POST     /_test/records             {"zone_id", "name", "record_type", "values", "ttl_seconds"}
POST     /_test/records/list        {"zone_id"}: {"www.example.com A": ["192.0.2.1"]}
POST     /_test/groups              the parameters of `Account.add_group`: {"id": "sg-…"}
POST     /_test/groups/remove       {"group_id", "region"}
POST     /_test/groups/rules        {"group_id", "region"}: the inbound rules by ID
POST     /_test/groups/of           {"instance_id", "region", "device_index"}: the groups of an interface
POST     /_test/groups/put          {"instance_id", "group_ids", "region", "device_index"}
POST     /_test/empty               makes the account empty, and forgets what reset does
POST     /_test/reset               forgets rate limits and delays too; keeps the account
=======  =========================  ========================================================================
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.support.control import Control

if TYPE_CHECKING:
    from flipop_aws_testserver.server import AWSServer


def new_control(server: AWSServer) -> Control:
    """Return what answers the control requests to ``server``."""
    account = server.account

    def state(_: Any) -> object:
        shown = {ip: {"tags": tags, "holder": account.holder(ip)} for ip, tags in account.addresses().items()}
        return {"addresses": shown, "settings": server.settings}

    def add_instances(body: dict[str, Any]) -> object:
        count = body.pop("count", 1)
        return {"instances": [account.add_instance(**body)._asdict() for _ in range(count)]}

    def add_addresses(body: dict[str, Any]) -> object:
        count = body.pop("count", 1)
        return {"ips": [account.add_address(**body) for _ in range(count)]}

    return Control(
        server,
        server.settings,
        {
            ("GET", "/_test/state"): state,
            ("POST", "/_test/instances"): add_instances,
            ("POST", "/_test/instances/stop"): lambda body: account.stop_instance(**body),
            ("POST", "/_test/instances/terminate"): lambda body: account.terminate_instance(**body),
            ("POST", "/_test/addresses"): add_addresses,
            ("POST", "/_test/addresses/remove"): lambda body: account.remove_address(**body),
            ("POST", "/_test/interfaces"): lambda body: {"id": account.add_interface(**body)},
            ("POST", "/_test/put"): lambda body: account.put(**body),
            ("POST", "/_test/take-off"): lambda body: account.take_off(**body),
            ("POST", "/_test/pools"): lambda body: account.add_pool(**body),
            ("POST", "/_test/zones"): lambda body: {"id": account.add_zone(**body)},
            ("POST", "/_test/records"): lambda body: account.put_records(**body),
            ("POST", "/_test/records/list"): lambda body: account.records(**body),
            ("POST", "/_test/groups"): lambda body: {"id": account.add_group(**body)},
            ("POST", "/_test/groups/remove"): lambda body: account.remove_group(**body),
            ("POST", "/_test/groups/rules"): lambda body: {k: r._asdict() for k, r in account.rules(**body).items()},
            ("POST", "/_test/groups/of"): lambda body: account.groups_of(**body),
            ("POST", "/_test/groups/put"): lambda body: account.put_groups(**body),
            ("POST", "/_test/empty"): lambda _: server.reset(),
        },
        also_reset=server.forget_disturbances,
    )
