from tests.servers import postgres, spark

__all__ = ["postgres", "spark"]
