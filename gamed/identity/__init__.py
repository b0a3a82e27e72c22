"""Who is this: how a person proves to be the one who signed in before (SPEC 1.3)."""
