-- All of a namespace but its events, as lines. In the list of the SELECT the function streams.
SELECT headwater.export_rows($1)
