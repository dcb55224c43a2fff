-- Others who can connect: one without any grant, one with grants in another namespace.
CREATE ROLE torture_stranger LOGIN PASSWORD 'stranger';
CREATE ROLE torture_tenant LOGIN PASSWORD 'tenant';
