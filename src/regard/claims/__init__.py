"""What lectures claim, as experiments: CLAIMS has all of them by number, C1 to C99."""

from regard.claims.all_claims import CLAIMS as CLAIMS
