"""The session with the platform: registration, the exchange of reports and orders, and what is sent again."""
