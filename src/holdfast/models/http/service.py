"""A service that is reached over HTTP, as data: its address, the variable of its key, how an address becomes a URL."""

import msgspec


class Service(msgspec.Struct, frozen=True, kw_only=True):
    """What a service needs to be reached; anything that a model states itself comes first."""

    description: str
    route: str
    """The end of the URL that requests go to."""
    version_path: str = ""
    """What stands before the route; added to an address that does not have it."""
    base_url: str = ""
    api_key_env: str = ""
    base_url_env: str = ""
    """The variable by which the service's own library is given another address."""
    base_url_example: str = ""
    base_path: str = ""
    """Added to a base_url that ends after its host."""
    key_header: str = "Authorization"
    headers: dict[str, str] = {}
    """Further headers of every request."""
