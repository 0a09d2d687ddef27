FROM python:3.11-slim-bookworm
COPY requirements.txt .
RUN pip install --no-cache-dir -r requirements.txt
