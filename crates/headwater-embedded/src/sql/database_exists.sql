SELECT FROM pg_database WHERE datname = 'headwater'
