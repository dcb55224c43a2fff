-- Makes a namespace's publication.
SELECT headwater.publish_namespace($1)
