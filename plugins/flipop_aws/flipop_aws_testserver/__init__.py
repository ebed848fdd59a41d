r"""An AWS for tests: moto's EC2 and Route 53 over real HTTP, behind a layer that does what AWS does and moto does not.

In a test::

    with AWSServer(Settings(address_limit=10)) as server:
        node = server.account.add_instance(private_addresses=3)
        zone_id = server.account.add_zone("example.com")
        server.fail("ec2:AssociateAddress", "drop_after_effect", skip=1)
        ...                                     # clients with endpoint=server.url
        assert server.actions() == {"ec2:DescribeInstances": 1, "ec2:AssociateAddress": 1}
        assert server.violations == []

As a process of its own: ``python -m flipop_aws_testserver --instances 3``, driven through ``/_test/…`` (see `control`).
Each server is an account of its own, however many run in one process. Requests signed with ``ADMIN_KEY`` are somebody
else's: they are neither kept in the journal nor refused, delayed or disturbed (`AWSServer.admin`). The server is not
part of the distribution, and needs the repository's root on the path.

What the layer does and moto, as of 5.2, does otherwise:

====================================  ==================================================================================
Elastic IPs (`elasticips`)
====================================  ==================================================================================
AssociateAddress, reassociation       omitted AllowReassociation moves the address; false: Resource.AlreadyAssociated
AssociateAddress, private address     PrivateIpAddress is heeded, so that an interface has one for each; an address that
                                      was there is displaced and stays in the account
AssociateAddress, targets             Gateway.NotAttached; InvalidInstanceID for several interfaces or a wrong state
DisassociateAddress                   idempotent: an association that is gone is no error, one that never was is
ReleaseAddress                        InvalidIPAddress.InUse while associated
AllocateAddress                       AddressLimitExceeded (``address_limit`` per region, other than of pools);
                                      PublicIpv4Pool and IpamPoolId are heeded; addresses are never loopback ones
DescribeAddresses                     fields without value are absent; filters know wildcards, 200 values at most; what
                                      was just allocated or associated shows after ``…_lag_seconds``
DescribeInstances and -Interfaces     associations of secondary addresses; ``IpOwnerId`` amazon for auto-assigned ones,
                                      which give way to Elastic IPs; a terminated instance has no interface; the lag of
                                      associations holds here too
====================================  ==================================================================================

====================================  ==================================================================================
Route 53 (`recordsets`)
====================================  ==================================================================================
ChangeResourceRecordSets              a batch takes effect as a whole or not at all; CREATE of what is there, DELETE of
                                      anything but exactly what is there, and a CNAME beside others are refused
GetChange                             PENDING for ``change_seconds``, then INSYNC
PriorRequestNotComplete               for a change of a zone while another one is answered (``latency_seconds``)
ListHostedZonesByName                 starts at the name instead of showing that one alone
ListResourceRecordSets                ``*`` reads as ``\052``
====================================  ==================================================================================

====================================  ==================================================================================
Security groups (`groups`)
====================================  ==================================================================================
AuthorizeSecurityGroupIngress         all rules of a request or none; shows and tags all that it made;
                                      RulesPerSecurityGroupLimitExceeded from ``rules_per_group`` on
RevokeSecurityGroupIngress            all rules of a request or none; shows what it removed
ModifyNetworkInterfaceAttribute       groups that do not exist or are of another VPC: InvalidGroup.NotFound;
                                      SecurityGroupsPerInterfaceLimitExceeded from ``groups_per_interface`` on
Describe…Groups, …Rules, …Interfaces  pages (``page_size``), more filters, 200 values each; the interfaces of a
                                      terminated instance are gone; what was before shows for ``group_lag_seconds``
====================================  ==================================================================================

====================================  ==================================================================================
All services (`server`)
====================================  ==================================================================================
Credentials                           another key than ``access_key_id``: AuthFailure, InvalidClientTokenId. The
                                      signature, and so the secret, is not checked
Permissions                           ``denied`` and ``granted`` actions: UnauthorizedOperation, AccessDenied; what tags
                                      at creation needs ec2:CreateTags too
Throttling                            ``requests_per_second`` of a service: RequestLimitExceeded (503), Throttling (400)
Filters                               200 values of one at most: FilterLimitExceeded
Request IDs                           each answer has one of its own
====================================  ==================================================================================
"""

from __future__ import annotations

from flipop_aws_testserver.account import Account, Instance
from flipop_aws_testserver.answers import AWSError
from flipop_aws_testserver.calls import AWSEntry
from flipop_aws_testserver.groups import Rule
from flipop_aws_testserver.server import ADMIN_KEY, AWSFault, AWSServer
from flipop_aws_testserver.settings import Settings

__all__ = ["ADMIN_KEY", "AWSEntry", "AWSError", "AWSFault", "AWSServer", "Account", "Instance", "Rule", "Settings"]
