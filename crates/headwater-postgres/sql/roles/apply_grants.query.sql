-- Gives roles the privileges that their grants need.
SELECT headwater.apply_grants()
