"""Record sets of Route 53 as a `flipop_core.DNSProvider`.

Which zone
    ``zone`` is a hosted zone's name, a name that lies in one (the longest match is taken), or its ID. A name selects
    public zones only, since a public address belongs into one; a private zone, and each of several public zones with
    one name, is selected by its ID. The record goes into that zone even if the account has a smaller one for its name:
    what answers for the name is decided by delegation. Where the zone itself delegates the name, the record would never
    be seen, and is Rejected.

What is a record set
    Plain sets only: those with values and a TTL. An alias, a set with a routing policy, or one bound to a health check
    is left alone: it reads as no record set, deleting does nothing, and ensuring is Rejected, as it is at a CNAME.

When it is done
    As soon as Route 53 has accepted a change it is part of every read and of every later change, and nothing can stop
    it: that is `Applied`. The name servers follow, as a rule within 60 seconds; nobody polls for that.

Who else writes
    Values of others in a set (``scope``) are part of what is written. The set that was read is then exchanged for the
    new one in a change that Route 53 refuses if anybody has changed the set meanwhile: `Busy`, and nothing is lost.

Calls
    A zone is looked up once in 15 minutes, with one call for each label that has to be left off the name. A record set
    is then read with one call, and written with none if it is as it should be, else with one, which it may share with
    other record sets of the zone. Only a refused change is read again, to tell a rival from a lasting obstacle.
"""

from __future__ import annotations

from flipop_core import DNSProvider, ProviderContext

__all__ = ["build_dns_provider"]


def build_dns_provider(context: ProviderContext) -> DNSProvider:
    """Return the DNS provider for one account. Imports the SDK, makes no call. Errors: ConfigError."""
    from flipop_aws.client import Client
    from flipop_aws.route53_api import Route53Api
    from flipop_aws.route53_records import Route53RecordSets

    return Route53RecordSets(Route53Api(Client(context, "route53")))
