"""The Gemini API: generateContent and streamGenerateContent, also of Vertex AI."""
