from tests.servers import postgres_url, spark

__all__ = ["postgres_url", "spark"]
