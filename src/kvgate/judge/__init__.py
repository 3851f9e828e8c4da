"""Decides: criterion × measurements → finding. Pure: no clock, no locale, no host, no file."""
