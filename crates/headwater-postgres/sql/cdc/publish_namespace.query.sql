-- Creates a namespace's publication.
SELECT headwater.publish_namespace($1)
