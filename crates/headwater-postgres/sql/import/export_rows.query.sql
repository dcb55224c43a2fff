-- Returns everything of a namespace except its events, as lines. In the list of the SELECT the
-- function streams.
SELECT headwater.export_rows($1)
