"""Names of prefixes: chained hashes of full blocks, in the forms that engines have."""

from .extras import Adapter, Extras, Media
from .forms import FORMS
from .prefix_hash import PrefixHash
from .tokens import Tokens, tokens_of

__all__ = ["FORMS", "Adapter", "Extras", "Media", "PrefixHash", "Tokens", "tokens_of"]
